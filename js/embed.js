// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Puts what has been built into modules, decoder.js and plugin.js: node embed.js FOLDER. So the package needs no way to
// load a file, which differs between Node, browsers and bundlers, and decodes without waiting.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

for (const [name, module] of [["h5lossy_decode.wasm", "decoder.js"], ["libH5Zh5lossy.so", "plugin.js"]]) {
  const text = readFileSync(join(process.argv[2], name)).toString("base64");
  writeFileSync(new URL(module, import.meta.url), `// Made by embed.js.\nexport default "${text}";\n`);
}
