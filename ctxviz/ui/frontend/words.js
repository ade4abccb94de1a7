// Numbers and counts as people read them; the same forms as on the figures made in Python.

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function power(exponent) {
  return (
    "10" +
    String(exponent)
      .replace("-", "⁻")
      .replace(/\d/g, (digit) => RAISED[digit])
  );
}

// 3·10⁻⁸, 2.1·10⁴, and plainly 0.031 or 1234 between. What was computed and is no number is infinite here.
export function sci(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "not measured";
  if (!Number.isFinite(x)) return "no number";
  if (x < 0) return "−" + sci(-x);
  if (x === 0) return "0";
  if (x >= 1e-3 && x < 9999.5) return x >= 99.5 ? String(Math.round(x)) : String(Number(x.toPrecision(2)));
  const [digits, exponent] = x.toExponential(1).split("e");
  return digits.replace(/\.0$/, "") + "·" + power(Number(exponent));
}

export function counted(n, noun) {
  return n === 1 ? `1 ${noun}` : `${n} ${noun}s`;
}

export function seconds(s) {
  return s >= 10 ? `${Math.round(s)} s` : `${Number(s.toPrecision(2))} s`;
}

// Whole numbers from 0 below n, at most about `most` of them, 1, 2, 5, 10, 20, 50, ... apart.
export function roundSteps(n, most) {
  let step = 1;
  for (let i = 0; n / step > most; i += 1) step = [1, 2, 5][(i + 1) % 3] * 10 ** Math.floor((i + 1) / 3);
  return Array.from({ length: Math.ceil(n / step) }, (_, i) => i * step);
}
