// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Runs a page in Chromium, and waits for what it finds.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import { setTimeout } from "node:timers/promises";

const repository = new URL("../../", import.meta.url);
const folders = process.env.PATH.split(delimiter);
const chromium = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => folders.map((folder) => join(folder, name)))
  .find(existsSync);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".json": "application/json" };

/** For `test`: skips where there is no Chromium. */
export const options = { skip: chromium ? false : "no Chromium here", timeout: 600000 };

/**
 * Runs a script in a page of a server that has the repository, and `more` files by their paths.
 *
 * @returns What the script passes to `send` first.
 */
export async function run(context, script, more = {}) {
  const page = `<!doctype html><script type="module">
    const send = (found) => fetch("/found", { method: "POST", body: JSON.stringify(found) });
    addEventListener("error", (event) => send({ error: event.message }));
    addEventListener("unhandledrejection", (event) => send({ error: String(event.reason) }));
    ${script}
  </script>`;
  const server = createServer();
  const found = new Promise((resolve) => {
    server.on("request", async (request, response) => {
      if (request.url === "/found") {
        resolve(JSON.parse(Buffer.concat(await request.toArray())));
        response.end();
      } else if (request.url === "/") {
        response.setHeader("Content-Type", "text/html").end(page);
      } else {
        try {
          const bytes = more[request.url] ?? readFileSync(new URL(`.${request.url}`, repository));
          response.setHeader("Content-Type", TYPES[extname(request.url)] ?? "application/octet-stream").end(bytes);
        } catch {
          response.writeHead(404).end();
        }
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const profile = mkdtempSync(join(tmpdir(), "chromium-"));
  const browser = spawn(
    chromium,
    ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, `http://127.0.0.1:${server.address().port}/`],
    { stdio: "ignore" },
  );
  const ended = once(browser, "exit");
  context.after(async () => {
    browser.kill();
    await ended;
    server.closeAllConnections();
    server.close();
    // Chromium's other processes may write for a moment after the first one has ended. Node's own retries do not
    // remove what is new.
    for (let tries = 1; ; ++tries) {
      try {
        rmSync(profile, { recursive: true, force: true });
        return;
      } catch (error) {
        if (tries === 50) throw error;
        await setTimeout(100);
      }
    }
  });
  return Promise.race([found, ended.then(([code]) => ({ error: `Chromium ended with ${code}` }))]);
}
