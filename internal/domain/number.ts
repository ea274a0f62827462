// Which decimal numbers a double holds (docs/reference/http-api.md#conventions: one that it does not hold compares by its text).

/**
 * True where the double, printed to as many significant digits as the text has, is the same decimal: `0.1`, `1e23` and
 * `0.10000000000000001` are held, `9007199254740993` and `1e400` are not.
 */
export function isHeld(text: string, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  const wanted = decimal(text);
  if (wanted.digits.length > 100) return false; // More than a double has, or than it can be printed to.
  const held = decimal(wanted.digits === '' ? String(value) : value.toPrecision(wanted.digits.length));
  return wanted.digits === held.digits && wanted.exponent === held.exponent;
}

/** True where printing the double gives the number as it was written, which for large integers is more than holding it. */
export function isPrinted(text: string, value: number): boolean {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return true;
  const wanted = decimal(text);
  const printed = decimal(String(value));
  return wanted.digits === printed.digits && wanted.exponent === printed.exponent;
}

/** Significant digits without zeros at either end, and the power of ten that they are multiplied by; zero has none. */
function decimal(text: string): { readonly digits: string; readonly exponent: number } {
  let end = text.length;
  for (let at = 0; at < text.length; at += 1) {
    // `e` or `E`
    if ((text.charCodeAt(at) | 0x20) !== 0x65) continue;
    end = at;
    break;
  }
  const power = end === text.length ? 0 : Number(text.slice(end + 1));
  const from = text.charCodeAt(0) === 0x2d ? 1 : 0;
  const point = text.indexOf('.');
  const isWhole = point === -1 || point > end;
  const places = isWhole ? 0 : end - point - 1;
  const digits = isWhole ? text.slice(from, end) : text.slice(from, point) + text.slice(point + 1, end);
  let first = 0;
  while (digits.charCodeAt(first) === 0x30) first += 1;
  let last = digits.length;
  while (last > first && digits.charCodeAt(last - 1) === 0x30) last -= 1;
  if (first === last) return { digits: '', exponent: 0 };
  return { digits: digits.slice(first, last), exponent: power - places + (digits.length - last) };
}

/**
 * The text by which a number that somebody wrote compares where a double does not hold it, as JSON would have it: no
 * plus sign, no zeros in front, no other base. Undefined for a number that is held.
 */
export function exactDigits(written: string, value: number): string | undefined {
  // Fewer characters without an exponent are always held.
  if (written.length < 16 && !/[eE]/.test(written)) return undefined;
  const plain = /^([-+]?)0[xo]/.test(written) ? written.replace(/^[-+]/, '') : undefined;
  if (plain !== undefined) return digitsOf(BigInt(plain).toString(), value);
  const [, minus = '', whole = '', fraction = '', power = ''] =
    /^(-?)\+?([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+)?$/.exec(written) ?? [];
  if (whole === '' && fraction === '') return undefined;
  const digits = whole.replace(/^0+(?=.)/, '') || '0';
  return digitsOf(`${minus}${digits}${fraction === '' ? '' : `.${fraction}`}${power}`, value);
}

const digitsOf = (text: string, value: number): string | undefined => (isHeld(text, value) ? undefined : text);
