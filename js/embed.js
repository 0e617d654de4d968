// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Puts h5lossy_decode.wasm into a module, decoder.js: node embed.js PATH. So the package needs no way to load a file,
// which differs between Node, browsers and bundlers, and decodes without waiting.

import { readFileSync, writeFileSync } from "node:fs";

const text = readFileSync(process.argv[2]).toString("base64");
writeFileSync(new URL("decoder.js", import.meta.url), `// Made by embed.js.\nexport default "${text}";\n`);
