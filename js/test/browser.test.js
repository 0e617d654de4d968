// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// All golden frames come out as they always did, in Chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import test from "node:test";

const repository = new URL("../../", import.meta.url);
const folders = process.env.PATH.split(delimiter);
const chromium = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => folders.map((folder) => join(folder, name)))
  .find(existsSync);
const TYPES = { ".js": "text/javascript", ".json": "application/json" };

const PAGE = `<!doctype html><script type="module">
  const send = (found) => fetch("/found", { method: "POST", body: JSON.stringify(found) });
  addEventListener("error", (event) => send({ error: event.message }));
  addEventListener("unhandledrejection", (event) => send({ error: String(event.reason) }));
  const { checkFrame } = await import("/js/test/frames.js");
  const names = await (await fetch("/names")).json();
  for (const name of names) {
    const frame = await (await fetch("/tests/golden/v1/" + name + ".frame")).arrayBuffer();
    const { holds } = await (await fetch("/tests/golden/v1/" + name + ".json")).json();
    try {
      await checkFrame(new Uint8Array(frame), holds.decoded_sha256);
    } catch (error) {
      await send({ error: name + ": " + error.message });
    }
  }
  await send({ checked: names.length });
</script>`;

test("golden frames in Chromium", { skip: chromium ? false : "no Chromium here", timeout: 600000 }, async (context) => {
  const names = readdirSync(new URL("tests/golden/v1/", repository))
    .filter((name) => name.endsWith(".frame"))
    .map((name) => name.replace(".frame", ""));
  assert(names.length > 200);
  const server = createServer();
  const found = new Promise((resolve) => {
    server.on("request", async (request, response) => {
      if (request.url === "/found") {
        resolve(JSON.parse(Buffer.concat(await request.toArray())));
        response.end();
      } else if (request.url === "/") {
        response.setHeader("Content-Type", "text/html").end(PAGE);
      } else if (request.url === "/names") {
        response.end(JSON.stringify(names));
      } else {
        try {
          const bytes = readFileSync(new URL(`.${request.url}`, repository));
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
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  const first = await Promise.race([found, ended.then(([code]) => ({ error: `Chromium ended with ${code}` }))]);
  assert.deepEqual(first, { checked: names.length });
});
