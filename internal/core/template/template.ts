// Tokens in text, of two kinds. `{{ $name }}` is a variable, replaced once when a document is imported
// (docs/reference/compile.md#variables). `{{ dot.path }}` is a place in an event's payload, rendered when a message is
// made (docs/reference/events.md: trigger message rendering). Each kind leaves the other alone.
// It decides what a token is and what it becomes. It never walks a prototype, never reads a value again for tokens,
// and takes linear time; what may go to a session is rendered as far as a bound alone (render.ts). Where a text comes
// from, and which texts are templates, is for the callers to know.

export { type Rendering, renderWithin } from './render.ts';
export { lookUp, missingPaths, parseTemplate, type Template } from './tokens.ts';
export { substituteVariables } from './variables.ts';
