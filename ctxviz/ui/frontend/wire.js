// What the delta route sends, as named records. The only place that knows the order of its lists.

// Null is not measured; infinite is what was computed and is no number.
export function number(value) {
  return value === "no number" ? Infinity : value;
}

const FLAGS = { same: 1, tie: 2, replaySame: 4, heldSame: 8, replayTie: 16, heldTie: 32 };

export function flags(bits) {
  return Object.fromEntries(Object.entries(FLAGS).map(([name, bit]) => [name, Boolean(bits & bit)]));
}

function variant([bits, tvd, gap, ratio, replay, held, said]) {
  const numbers = { tvd, gap, ratio, replay, held };
  for (const [name, value] of Object.entries(numbers)) numbers[name] = number(value);
  return { ...flags(bits), ...numbers, said: said ?? null };
}

export function token([text, seconds, ...variants]) {
  return { text, seconds: number(seconds), variants: variants.map(variant) };
}

// References of one step and dtype.
export function reference([step, dtype, unpatched, floor, floorGap, unpatchedGap]) {
  const values = { unpatched, floor, floorGap, unpatchedGap };
  for (const [name, value] of Object.entries(values)) values[name] = number(value);
  return { step, dtype, values };
}

export function alarm([kind, words, step, layer, variantIndex]) {
  return { kind, words, step, layer, variant: variantIndex };
}

// Little-endian float32 in base64.
export function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}
