// What the YAML library says of a text that it cannot read, in an author's words.

const blockAsKey = 'Put the value in quotes if it holds ": ", or move it to its own indented line.';
const quoteIt = 'Put the value in quotes.';

/** By the code of the error: what to do. */
export const hints: { readonly [code: string]: string } = {
  TAB_AS_INDENT: 'Indent with spaces; YAML does not allow tabs there.',
  BAD_INDENT: 'Line the entry up with its neighbours.',
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
    / at node end$/,
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
