// Bounds on what compile builds from files that are each within their own bounds (docs/reference/compile.md#imports,
// docs/reference/compile.md#yaml).

/** Nested imports below an agent document. */
export const importDepthMax = 100;
/** Entries of one `imports` list. */
export const importsMax = 1_000;
/** Files outside `.svc/` that a tree may import or load. */
export const outsidePathsMax = 100;
/** Characters of one text that appending or substitution makes. */
export const textCharactersMax = 1024 * 1024;
/** Characters that substitution may write for one agent. */
export const substitutedCharactersMax = 16 * 1024 * 1024;
/** Items of a merged list. */
export const listItemsMax = 10_000;
/** Findings of one document, so that a broken one cannot bury the others. */
export const findingsMax = 200;
/** Diagnostics of one compile; the rest is counted. */
export const diagnosticsMax = 2_000;
/**
 * Size of the agent files with an error of their own that one compile reads: reading them takes the time that a tree has, and
 * gives no agent.
 */
export const brokenBytesMax = 4 * 1024 * 1024;
/** Work of joining one document with its imports, and of a whole tree; counted in values, see budget.ts. */
export const documentWorkMax = 1_000_000;
export const treeWorkMax = 16_000_000;
