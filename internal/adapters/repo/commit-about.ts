// Who wrote a commit and what its message says, for people. Both are text of strangers: decoded leniently, cut, and without
// signs that no line of text has or that turn the reading order of what stands beside them.

import type { CommitAbout } from '../../domain/commit.ts';

/** Of each, in code points. */
const charsMax = 200;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const unreadable = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

const oneLine = (text: string): string =>
  [...text.toWellFormed().replace(unreadable, ' ').trim()].slice(0, charsMax).join('');

function decoderOf(label: string | undefined) {
  try {
    return new TextDecoder(label ?? 'utf-8');
  } catch {
    // An encoding that nobody knows: most of it is ASCII whatever it is.
    return new TextDecoder('utf-8');
  }
}

/** Reads a commit object; what cannot be found in it is empty. */
export function commitAbout(bytes: Buffer): CommitAbout {
  const end = bytes.indexOf('\n\n');
  const head = end < 0 ? bytes : bytes.subarray(0, end);
  // The headers' names are ASCII; continued lines, as of a signature, begin with a space.
  const names = head.toString('latin1');
  const decoder = decoderOf(/^encoding (\S{1,40})$/m.exec(names)?.[1]);
  const author = /^author ([^\n<]*?) ?</m.exec(names)?.[1] ?? '';
  const message = end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 2, end + 2 + 65_536);
  const [first = ''] = decoder.decode(message).trimStart().split('\n', 1);
  return { message: oneLine(first), author: oneLine(decoder.decode(Buffer.from(author, 'latin1'))) };
}
