// What the YAML library says of a text that it cannot read, in an author's words, and what of it is worth telling.

import type { YAMLError } from 'yaml';

const blockAsKey = 'Put the value in quotes if it holds ": ", or move it to its own indented line.';
const quoteIt = 'Put the value in quotes.';

/** Errors that say of a value by itself that it cannot be read, wherever it stands. */
export const certain: ReadonlySet<string> = new Set([
  'BAD_SCALAR_START',
  'BAD_DQ_ESCAPE',
  'BAD_ALIAS',
  'TAG_RESOLVE_FAILED',
]);

const inPlace: ReadonlySet<string> = new Set([
  ...certain,
  'ALIAS_PROPS',
  'BAD_COLLECTION_TYPE',
  'BAD_DIRECTIVE',
  'BAD_PROP_ORDER',
  'MULTIPLE_ANCHORS',
  'MULTIPLE_TAGS',
]);

/** True where an error says that a line, or what is on it, does not stand where it belongs. */
export function misplacing({ code, message, name }: YAMLError): boolean {
  return name !== 'YAMLWarning' && !inPlace.has(code) && !/ at node end$/.test(message);
}

/** By the code of the error: what to do. */
export const hints: { readonly [code: string]: string } = {
  TAB_AS_INDENT: 'Indent with spaces; YAML does not allow tabs there.',
  BLOCK_AS_IMPLICIT_KEY: blockAsKey,
  MULTILINE_IMPLICIT_KEY: 'Is a ":" missing after the key, or a quote not closed?',
  MISSING_CHAR: 'Is a quote, bracket or ":" not closed or missing?',
  BAD_SCALAR_START: quoteIt,
  BAD_DQ_ESCAPE: 'Use single quotes where "\\" is meant as it stands.',
  BAD_ALIAS: 'Put the value in quotes if "*" or "&" is meant as it stands.',
};

/** What the library says in its own words, by a part of it that nothing else has, in an author's. */
export const words: readonly (readonly [said: RegExp, message: string, hint: string])[] = [
  [
    /^All mapping items must start/,
    'This line is not indented as the keys around it are',
    'Line it up with them; a text of several lines stands in quotes, or below "|".',
  ],
  [
    /^All sequence items must start/,
    'This entry is not indented as the others of its list are',
    'Line its "-" up with theirs.',
  ],
  [
    /^A block sequence may not be used/,
    'This list belongs to no key',
    'Write its key on the line before it, or indent it as the list above it is.',
  ],
  [
    /^Unexpected block-seq-ind on same line/,
    'A list does not begin on the line of its key',
    'Begin it on the next line, or write it in brackets.',
  ],
  [
    /^Flow (?:map|sequence) in block collection/,
    'This line is not indented further than the key whose brackets it belongs to',
    'Indent it, or close the brackets on the line before it.',
  ],
  [
    /^Block collections are not allowed within flow/,
    'What stands in brackets is not separated by commas',
    'Put a comma between its entries, or write all of it without brackets.',
  ],
  [
    /^Missing , (?:or : )?between flow/,
    'A comma is missing between two entries in brackets',
    'Put a comma between them; a text that holds one of , [ ] { } stands in quotes.',
  ],
  [/^Unexpected (?:, in|empty item)/, 'There is a comma too many', 'Remove it, or write what is missing before it.'],
  [
    /sufficiently indented$/,
    'A text in quotes goes on here without being indented further than its key',
    'Indent its lines, or close the quote before them.',
  ],
  [
    /^(?:Block scalar header includes extra|Not a YAML token)/,
    'There is more than "|" or ">" on the line where a text begins',
    'Begin the text on the next line, indented further than its key.',
  ],
  [/cannot start with block scalar indicator/, 'A value inside brackets does not begin with | or >', quoteIt],
  [
    /^Block scalars with more-indented leading/,
    'A blank line before the text is indented further than the text',
    'Leave no spaces on blank lines, or indent the text as far.',
  ],
  [
    /^Block scalar lines must not be less/,
    'This line of a text is indented less than its first line',
    'Indent it as far, with spaces.',
  ],
  [
    /^Block scalar values in collections must/,
    'A text below "|" or ">" is not indented further than its key',
    'Indent its lines, with spaces.',
  ],
  [/^Comments must be separated/, 'A comment has a space before its "#"', quoteIt],
  [
    /^Unexpected \S+ (?:at node end|token)$/,
    'There is more after the end of the value',
    'Put the whole value in quotes; inside double quotes, a quote is written \\".',
  ],
  [
    /^Missing directives-end/,
    'The line "---" is missing behind the directives',
    'Write "---" between a directive ("%…") and the document, or remove the directive.',
  ],
  [
    / in YAML (?:stream|document)/,
    'This belongs to nothing before it',
    'Is it indented as its neighbours are, or a bracket too many?',
  ],
  [/Nested mappings are not allowed/, 'A ": " stands in a value that is not in quotes', blockAsKey],
  [
    /Implicit keys need to be on a single line/,
    'This line is no "key: value"',
    'Put a space behind the ":" of its key; a text of several lines stands in quotes, or below "|".',
  ],
  [
    /Sequence item without - indicator/,
    'This line belongs to no entry of the list above it',
    'Line it up with the keys beside the "-", or begin it with "- " as an entry of its own.',
  ],
  [/Plain value cannot start with reserved character/, 'A value does not begin with @ or ` in YAML', quoteIt],
  [
    /Implicit map keys need to be followed/,
    'A ":" is missing after this key',
    'Write "key: value", with a space after the colon.',
  ],
];
