// How deep received JSON nests, read off its bytes before any parser is made to recurse by what is about to be refused.

const openings = [0x7b, 0x5b] as const;

/** True where there are enough brackets to nest too deep; most bodies have not, and are not walked. */
function mayNestDeeper(bytes: Uint8Array, levels: number): boolean {
  let count = 0;
  for (const bracket of openings) {
    for (let at = bytes.indexOf(bracket); at !== -1; at = bytes.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > levels) return true;
    }
  }
  return false;
}

/** Whether JSON in UTF-8 opens more than `levels` of `{` and `[` inside each other, the outermost included. */
export function nestsDeeper(bytes: Uint8Array, levels: number): boolean {
  if (!mayNestDeeper(bytes, levels)) return false;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (quoted) {
      if (byte === 0x5c) at += 1;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > levels) return true;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
  return false;
}
