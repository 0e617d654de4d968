// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What viewer.html does: lists the datasets of an HDF5 file, draws slices of them, and says how h5lossy compressed them.

import { Dataset, File as Hdf5File, ready } from "h5wasm";
import { registerH5wasm } from "./h5wasm.js";
import { FILTER_ID, inspect } from "./index.js";

const PATH = "/opened.h5"; // in h5wasm's file system
const MOST_POINTS = 1024; // that are drawn along an axis
const LINE_HEIGHT = 320;
const PAUSE_MS = 50;
const COLORS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const CLASSES = "integer,float,time,string,bit field,opaque,compound,reference,enum,variable length,array".split(","); // of HDF5
const BYTES_OF_COLORS = COLORS.map((color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));

const part = (id) => document.getElementById(id);
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
const product = (extents) => extents.reduce((size, extent) => size * extent, 1);
const shapeText = (extents) => extents.join(" × ");
const numberText = (number) => String(Number(number.toPrecision(7)));
const isOurs = (dataset) => dataset.filters.some(({ id }) => id === FILTER_ID);

const module = await ready;
registerH5wasm(module);

/** Says that HDF5 could not read: h5wasm itself goes on, with whatever is in memory. */
class ReadError extends Error {}

const { get_dataset_data: readData } = module;
module.get_dataset_data = (...call) => {
  if (readData(...call) < 0) throw new ReadError("a chunk is damaged, or needs a filter that is not here");
};

let file;
let dataset; // the one that is shown
let slice; // of it, as it is drawn
let facts; // that are shown of it, by their names
let onRead = () => {};

part("colors").style.background = `linear-gradient(to right, ${COLORS})`;
part("status").textContent = "";
part("chosen").disabled = false;
part("chosen").addEventListener("change", ({ target }) => target.files.length && openFile(target.files[0]));
part("canvas").addEventListener("pointermove", sayValue);
for (const name of ["dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    part("drop").classList.toggle("over", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  });
}

async function openFile(source) {
  dataset = undefined; // no more of it is read
  part("file").hidden = part("dataset").hidden = true;
  part("status").textContent = `Opening ${source.name} …`;
  try {
    const bytes = new Uint8Array(await source.arrayBuffer());
    file?.close();
    file = undefined;
    if (module.FS.analyzePath(PATH).exists) module.FS.unlink(PATH);
    module.FS.writeFile(PATH, bytes, { canOwn: true });
    watch(bytes);
    const opened = new Hdf5File(PATH, "r");
    if (opened.file_id < 0) throw new Error("it is not an HDF5 file, or not a whole one");
    file = opened;
    const found = file.paths().map((path) => file.get(path)).filter((object) => object instanceof Dataset);
    part("datasets").replaceChildren(...found.map(listed));
    part("status").textContent = `${source.name}: ${found.length} dataset${found.length === 1 ? "" : "s"}`;
    part("file").hidden = false;
  } catch (error) {
    part("status").textContent = `${source.name} cannot be opened: ${error.message}`;
  }
}

/** Has `onRead` called with the bytes of each read of HDF5, which reads a chunk at once. */
function watch(bytes) {
  const { node } = module.FS.lookupPath(PATH);
  const { read } = node.stream_ops;
  node.stream_ops = {
    ...node.stream_ops,
    read(stream, buffer, offset, length, position) {
      onRead(bytes.subarray(position, position + length));
      return read(stream, buffer, offset, length, position);
    },
  };
}

/** Makes the line of a dataset in the list. */
function listed(found) {
  const about = [typeText(found.metadata), found.shape && shapeText(found.shape), isOurs(found) && "h5lossy"];
  const button = make("button", { type: "button", textContent: found.path });
  button.append(make("small", { textContent: about.filter(Boolean).join(" · ") }));
  button.addEventListener("click", () => {
    document.querySelector("[aria-current]")?.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    show(found);
  });
  const line = make("li");
  line.append(button);
  return line;
}

function show(found) {
  dataset = found;
  const { metadata, filters, shape } = found;
  part("name").textContent = found.path;
  part("axes").replaceChildren(...(shape ?? []).slice(0, -2).map(slider));
  facts = {
    Type: typeText(metadata),
    Shape: shape?.length ? shapeText(shape) + (metadata.chunks ? `, in chunks of ${shapeText(metadata.chunks)}` : "") : "none",
    Compression: filters.map(({ id, name }) => (id === FILTER_ID ? "h5lossy" : name)).join(", ") || "none",
  };
  part("dataset").hidden = false;
  say({});
  draw();
  if (isOurs(found)) measure(found);
}

function slider(extent, axis) {
  const input = make("input", { type: "range", min: 0, max: extent - 1, value: 0 });
  const place = make("output", { textContent: `0 of 0 to ${extent - 1}` });
  input.addEventListener("input", () => {
    place.textContent = `${input.value} of 0 to ${extent - 1}`;
    draw();
  });
  const label = make("label", { textContent: `Axis ${axis}` });
  label.append(input, place);
  return label;
}

function say(more) {
  Object.assign(facts, more);
  const texts = Object.entries(facts).flatMap(([name, text]) => [make("dt", { textContent: name }), make("dd", { textContent: text })]);
  part("facts").replaceChildren(...texts);
}

function draw() {
  part("trouble").textContent = part("value").textContent = "";
  part("figure").hidden = true;
  try {
    slice = read();
    const { least, most, absent, isLine } = slice;
    if (isLine) drawLine(slice);
    else drawImage(slice);
    const range = least > most ? "no values" : `${numberText(least)} to ${numberText(most)}`;
    part("canvas").setAttribute("aria-label", `${dataset.path}: ${range}, ${absent} missing`);
    part("least").textContent = isLine || least > most ? range : numberText(least);
    part("most").textContent = numberText(most);
    part("colors").hidden = part("most").hidden = isLine || least > most;
    part("absent").textContent = absent ? `${absent} missing` : "";
    part("figure").hidden = false;
  } catch (error) {
    part("trouble").textContent = `Not drawn: ${error.message}`;
  }
}

/** Reads the slice that the sliders say, or every n-th value of it along an axis that is too long. */
function read() {
  const { shape, attrs } = dataset;
  if (!shape?.length || product(shape) === 0) throw new Error("there are no axes, or no values");
  const at = Array.from(part("axes").querySelectorAll("input"), ({ valueAsNumber }) => [valueAsNumber, valueAsNumber + 1]);
  const steps = shape.slice(at.length).map((extent) => Math.ceil(extent / MOST_POINTS));
  const stored = dataset.slice([...at, ...shape.slice(at.length).map((extent, axis) => [0, extent, steps[axis]])]);
  if (!ArrayBuffer.isView(stored)) throw new Error("the values are no numbers");
  const marks = ["_FillValue", "missing_value"].filter((name) => name in attrs).map((name) => Number(attrs[name].value));
  const values = Float64Array.from(stored, (value) => (marks.includes(Number(value)) ? NaN : Number(value)));
  let [least, most, absent] = [Infinity, -Infinity, 0];
  for (const value of values) {
    if (Number.isFinite(value)) [least, most] = [Math.min(least, value), Math.max(most, value)];
    else ++absent;
  }
  const columns = Math.ceil(shape.at(-1) / steps.at(-1));
  return { values, least, most, absent, rows: values.length / columns, columns, steps, isLine: shape.length === 1 };
}

/** Draws a pixel for each value; those that are missing or not finite stay transparent. */
function drawImage({ values, least, most, rows, columns }) {
  const image = new ImageData(columns, rows);
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const at = ((value - least) / (most - least || 1)) * (COLORS.length - 1);
    const below = Math.min(Math.floor(at), COLORS.length - 2);
    for (let band = 0; band < 3; ++band) {
      const [from, to] = [BYTES_OF_COLORS[below][band], BYTES_OF_COLORS[below + 1][band]];
      image.data[4 * i + band] = from + (at - below) * (to - from);
    }
    image.data[4 * i + 3] = 255;
  });
  const canvas = Object.assign(part("canvas"), { width: columns, height: rows });
  Object.assign(canvas.style, { width: `min(100%, ${(70 * columns) / rows}vh)`, imageRendering: "pixelated" });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function drawLine({ values, least, most, columns }) {
  const canvas = Object.assign(part("canvas"), { width: MOST_POINTS, height: LINE_HEIGHT });
  Object.assign(canvas.style, { width: "100%", imageRendering: "auto" });
  const context = canvas.getContext("2d");
  context.strokeStyle = getComputedStyle(part("value")).getPropertyValue("--accent");
  context.lineWidth = 2;
  let isDown = false;
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return (isDown = false);
    const [x, y] = [((i + 0.5) * MOST_POINTS) / columns, 4 + (LINE_HEIGHT - 8) * (1 - (value - least) / (most - least || 1))];
    if (!isDown) context.moveTo(x - 1, y); // a value between missing ones is seen, too
    context.lineTo(x, y);
    isDown = true;
  });
  context.stroke();
}

function sayValue({ offsetX, offsetY, target }) {
  const { values, rows, columns, steps, isLine } = slice;
  const column = Math.min(Math.floor((offsetX / target.clientWidth) * columns), columns - 1);
  const row = Math.min(Math.floor((offsetY / target.clientHeight) * rows), rows - 1);
  const place = isLine ? [column] : [row, column];
  part("value").textContent = `[${place.map((i, axis) => i * steps[axis]).join(", ")}] ${numberText(values[row * columns + column])}`;
}

/** Reads all chunks of a dataset, and says what their frames are and how large. */
async function measure(measured) {
  const { shape, chunks, size } = measured.metadata;
  const counts = shape.map((extent, axis) => Math.ceil(extent / chunks[axis]));
  const total = product(counts);
  const [codecs, bounds] = [new Set(), new Set()];
  let [raw, stored, empty, damaged] = [0, 0, 0, 0];
  for (let chunk = 0, pauseAt = 0; chunk < total; ++chunk) {
    const first = counts.map((count, axis) => (Math.floor(chunk / product(counts.slice(axis + 1))) % count) * chunks[axis]);
    let isEmpty = true; // or its frame is within another filter
    onRead = (bytes) => {
      try {
        const { codec, boundKind, bound } = inspect(bytes);
        codecs.add(codec);
        bounds.add(boundKind === "lossless" ? boundKind : `${boundKind.replace("_", "-")} ${bound}`);
      } catch {
        return; // no frame
      }
      isEmpty = false;
      stored += bytes.length;
      raw += size * product(first.map((start, axis) => Math.min(chunks[axis], shape[axis] - start)));
    };
    try {
      measured.slice(first.map((start) => [start, start + 1]));
      empty += isEmpty;
    } catch (error) {
      if (error instanceof ReadError) ++damaged;
      else empty += isEmpty; // it has been read, and h5wasm has no arrays of its type
    } finally {
      onRead = () => {};
    }
    if (chunk + 1 < total && performance.now() < pauseAt) continue;
    const counted = [`${chunk + 1} of ${total} read`, empty && `${empty} without a frame`, damaged && `${damaged} damaged`];
    say({
      Codec: [...codecs].join(", "),
      Bound: [...bounds].join(", "),
      Ratio: stored ? (raw / stored).toFixed(2) : "",
      Chunks: counted.filter(Boolean).join(", "),
    });
    await new Promise((resolve) => setTimeout(resolve));
    if (dataset !== measured) return;
    pauseAt = performance.now() + PAUSE_MS;
  }
}

function typeText({ type, size, signed, compound_type: compound }) {
  if (CLASSES[type] === "integer") return `${signed ? "int" : "uint"}${8 * size}`;
  if (CLASSES[type] === "float") return `float${8 * size}`;
  if (compound?.members.map(({ name }) => name).join() === "r,i") return `complex${8 * size}`;
  return CLASSES[type] ?? "unknown";
}
