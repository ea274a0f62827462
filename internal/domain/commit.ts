// What a commit says of itself.

/** The first line of its message, and the name of who wrote it; either may be empty. Text of strangers. */
export interface CommitAbout {
  readonly message: string;
  readonly author: string;
}
