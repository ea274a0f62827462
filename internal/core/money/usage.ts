// The usage of one call, in the words that all providers are brought to.

export interface Usage {
  /** Neither read from a cache nor written to one. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Of those written to a cache, the ones kept for an hour. */
  readonly cacheWriteLongTokens?: number;
  /** Searches that the provider made itself. */
  readonly webSearches?: number;
  /** What the provider says that the call cost: a decimal string, US dollars. */
  readonly reportedUsd?: string;
  /** True where the provider did not tell all of it, and the rest was counted from what was seen. */
  readonly estimated: boolean;
}
