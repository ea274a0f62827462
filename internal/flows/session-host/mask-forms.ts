// In what forms a value that must not show is written by the programs that a session runs: as JSON, in an address, in base64
// and hexadecimal. A program that scrambles it on purpose is not held by this, and nothing here promises that.

/** Lines of a value of several, such as a key's: one alone tells enough. */
const lineCharsMin = 16;
/** Of what stands inside a longer text in base64: shorter ones would be found where they are not. */
const innerCharsMin = 8;

/** All forms of a value; the value itself is one of them. */
export function formsOf(value: string): readonly string[] {
  const bytes = Buffer.from(value);
  const forms = [
    ...[value, value.trim()],
    ...value.split(/\r?\n/).filter((line) => line.length >= lineCharsMin),
    ...inJson(value),
    ...inAddress(value),
    ...inBase64(bytes),
    ...[bytes.toString('hex'), bytes.toString('hex').toUpperCase()],
  ];
  // What is not read as UTF-8 is masked byte by byte.
  return [...new Set(forms.flatMap((form) => [form, Buffer.from(form).toString('latin1')]))];
}

/** Between the quotes: as it is, in ASCII alone, and once more within a text that is JSON itself. */
function inJson(value: string): string[] {
  const within = (text: string): string => JSON.stringify(text).slice(1, -1);
  const ascii = (text: string): string =>
    text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const plain = within(value);
  return [plain, ascii(plain), within(plain), within(ascii(plain))];
}

/** What stands for itself in an address, and whether a slash and a space do, differs from program to program. */
function inAddress(value: string): string[] {
  const loose = encodeURIComponent(value.toWellFormed());
  const strict = loose.replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const form = strict.replaceAll('%2A', '*').replaceAll('~', '%7E').replaceAll('%20', '+');
  const all = [loose, strict, strict.replaceAll('%2F', '/'), strict.replaceAll('%20', '+'), form];
  return all.flatMap((one) => [one, one.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]);
}

/** Alone, and behind one or two other bytes: those characters that no neighbour has a part in. In both alphabets. */
function inBase64(bytes: Buffer): string[] {
  const inner = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  const all = [bytes.toString('base64'), ...inner.filter((one) => one.length >= innerCharsMin)];
  return all.flatMap((one) => [one, one.replaceAll('+', '-').replaceAll('/', '_')]);
}
