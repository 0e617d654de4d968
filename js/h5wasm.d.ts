// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

/**
 * Has h5wasm read datasets that h5lossy has compressed.
 *
 * @param module What h5wasm's `ready` resolves to.
 * @param folder Where the plugin is written to, in h5wasm's file system. In Node that is the machine's: give a folder that
 *   may be written to.
 */
export function registerH5wasm(
  module: {
    FS: { mkdirTree(path: string): unknown; writeFile(path: string, data: Uint8Array): unknown };
    insert_plugin_search_path(path: string, index: number): unknown;
  },
  folder?: string,
): void;
