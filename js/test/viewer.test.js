// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// viewer.html, in Chromium: what it lists, says and draws of a file that h5lossy has written. The file, and what it holds,
// come from tests/test_javascript.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { options, run } from "./chromium.js";

const WIDTHS = [1400, 390];

const SCRIPT = `
  const frame = document.createElement("iframe");
  frame.src = "/js/viewer.html";
  frame.height = 900;
  document.body.append(frame);
  const part = (id) => frame.contentDocument?.getElementById(id);
  async function until(holds) {
    while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await until(() => part("chosen")?.disabled === false);

  async function drop(name) {
    const transfer = new DataTransfer();
    transfer.items.add(new File([await (await fetch(name)).arrayBuffer()], name));
    frame.contentWindow.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer }));
    await until(() => part("status").textContent.startsWith(name + ":") || part("status").textContent.includes("cannot"));
  }

  async function look(button) {
    button.click();
    const facts = () => {
      const texts = Array.from(part("facts").children, (child) => child.textContent);
      return Object.fromEntries(texts.flatMap((text, i) => (i % 2 ? [[texts[i - 1], text]] : [])));
    };
    await until(() => {
      const [, done, all] = /^(\\d+) of (\\d+) read/.exec(facts().Chunks ?? "") ?? [];
      return done === all && (facts().Compression !== "h5lossy" || all !== undefined);
    });
    const sliders = part("axes").querySelectorAll("input");
    for (const slider of sliders) {
      slider.value = slider.max; // the last slice
      slider.dispatchEvent(new Event("input"));
    }
    const canvas = part("canvas");
    const isDrawn = !part("figure").hidden;
    const overflows = [];
    for (const width of ${JSON.stringify(WIDTHS)}) {
      frame.width = width;
      const { scrollWidth, clientWidth } = frame.contentDocument.documentElement;
      if (scrollWidth > clientWidth || clientWidth < 0.9 * width) overflows.push([width, clientWidth, scrollWidth]);
    }
    const box = canvas.getBoundingClientRect();
    const pointed = [[0, 0], [0.999, 0.999]].map(([x, y]) => {
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + x * box.width, clientY: box.y + y * box.height }));
      return part("value").textContent;
    });
    return {
      facts: facts(),
      trouble: part("trouble").textContent,
      sliders: sliders.length,
      overflows,
      ...(isDrawn && {
        label: canvas.getAttribute("aria-label"),
        size: [canvas.height, canvas.width],
        pixels: Array.from(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data),
        pointed,
      }),
    };
  }

  async function lookAtAll() {
    const seen = [];
    for (const button of part("datasets").querySelectorAll("button")) {
      const [path, about] = Array.from(button.childNodes, (node) => node.textContent);
      seen.push([path, { about, ...(await look(button)) }]);
    }
    return { status: part("status").textContent, seen };
  }

  await drop("text.h5");
  const text = { status: part("status").textContent, isHidden: part("file").hidden };
  await drop("viewed.h5");
  const whole = await lookAtAll();
  await drop("damaged.h5");
  const damaged = await lookAtAll();
  await send({ text, whole, damaged });
`;

/** Throws unless pixels go from the first color to the last as the values do; null is a missing one. */
function checkColors(pixels, values, path) {
  const colored = values.map((value, i) => [value, pixels.slice(4 * i, 4 * i + 4)]);
  for (const [value, [, , , alpha]] of colored) assert.equal(alpha, value === null ? 0 : 255, path);
  const sorted = colored.filter(([value]) => value !== null).sort(([a], [b]) => a - b);
  assert.deepEqual(sorted[0][1], [0x44, 0x01, 0x54, 255], path);
  assert.deepEqual(sorted.at(-1)[1], [0xfd, 0xe7, 0x25, 255], path);
  const brightness = sorted.map(([, [red, green, blue]]) => 0.21 * red + 0.72 * green + 0.07 * blue);
  for (let i = 1; i < sorted.length; ++i) assert(brightness[i] > brightness[i - 1] - 1, `${path}: ${sorted[i]}`);
  assert(new Set(brightness).size > 20, path);
}

const folder = process.env.H5LOSSY_VIEWED;
const skip = folder ? options.skip : "tests/test_javascript.py runs this, with a file";

test("viewer", { ...options, skip }, async (context) => {
  const read = (name) => readFileSync(join(folder, name));
  const files = Object.fromEntries(["viewed.h5", "damaged.h5", "text.h5"].map((name) => [`/${name}`, read(name)]));
  const expected = JSON.parse(read("viewed.json"));
  const { text, whole, damaged, error } = await run(context, SCRIPT, files);
  assert.equal(error, undefined);

  assert.match(text.status, /^text.h5 cannot be opened: it is not an HDF5 file/);
  assert(text.isHidden);

  assert.equal(whole.status, `viewed.h5: ${Object.keys(expected).length} datasets`);
  assert.deepEqual(whole.seen.map(([path]) => path), Object.keys(expected).sort());
  for (const [path, seen] of whole.seen) {
    const { about, facts, image, line, trouble } = expected[path];
    assert.equal(seen.about, about);
    assert.deepEqual(seen.facts, facts);
    assert.deepEqual(seen.overflows, [], path);
    assert.match(seen.trouble, new RegExp(trouble));
    assert.equal(seen.pixels === undefined, trouble !== "^$", path);
    if (image) {
      assert.deepEqual(seen.size, image.size);
      checkColors(seen.pixels, image.values, path);
      assert.deepEqual(seen.pointed, image.pointed);
      assert.equal(seen.label, `${path}: ${image.label}`);
    }
    if (line) {
      // In each column where there are values, the line is as high as they are.
      const [height, width] = seen.size;
      const column = (at) => Array.from({ length: height }, (_, y) => seen.pixels[4 * (y * width + at) + 3]);
      const top = (at) => column(Math.round((width - 1) * at)).findIndex((alpha) => alpha > 100);
      assert(top(0.01) > 0.97 * height && top(0.99) < 0.04 * height, path);
      assert(Math.abs(top(0.5) - height / 2) < 0.05 * height, path);
      assert.deepEqual(seen.pointed, line.pointed);
    }
  }

  const [[, { facts, trouble, pixels }]] = damaged.seen;
  assert.equal(facts.Chunks, "4 of 4 read, 1 damaged");
  assert.match(trouble, /^Not drawn: a chunk is damaged/);
  assert.equal(pixels, undefined);
});
