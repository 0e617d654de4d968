// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Apart from the rest, as it brings a decoder of its own: h5wasm loads plugins of HDF5.

import plugin from "./plugin.js";

/** Has h5wasm read datasets of h5lossy. */
export function registerH5wasm(module, folder = "/usr/local/hdf5/lib/plugin") {
  module.FS.mkdirTree(folder);
  module.FS.writeFile(
    `${folder}/libH5Zh5lossy.so`,
    Uint8Array.from(atob(plugin), (letter) => letter.charCodeAt(0)),
  );
  module.insert_plugin_search_path(folder, 0);
}
