// Bounds on one file, checked before anything is composed (docs/reference/compile.md#yaml).

export interface SourceLimits {
  readonly maxBytes: number;
  /** Nesting of maps and lists, also after aliases are followed. */
  readonly maxDepth: number;
  /** Keys, values, list items and their indicators, as written. */
  readonly maxNodes: number;
  /** Everything that the YAML lexer tells apart, blank lines and comments too. */
  readonly maxTokens: number;
  readonly maxDocuments: number;
  /** What aliases add to a file: nodes, and characters of text. */
  readonly maxAliasNodes: number;
  readonly maxAliasCharacters: number;
  /** Findings reported for one file; the rest of a broken file is rarely news. */
  readonly maxFindings: number;
}

export const defaultLimits: SourceLimits = {
  maxBytes: 1024 * 1024,
  maxDepth: 100,
  maxNodes: 150_000,
  maxTokens: 500_000,
  maxDocuments: 2_000,
  maxAliasNodes: 100_000,
  maxAliasCharacters: 4 * 1024 * 1024,
  maxFindings: 50,
};
