// What a provider is asked with, and what comes of it.

export interface Proof {
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

export interface Person {
  readonly issuer: string;
  /** The provider's own name for the person, which never changes. */
  readonly subject: string;
  readonly name: string;
  readonly groups: readonly string[];
  /** For asking for the groups again; absent where the provider gives none. */
  readonly refreshToken?: string;
}

/**
 * `refused`: the provider answered that this person's consent is over. `unknown`: it was sent, and nothing was learned.
 * `renewed`: the token was replaced, and the groups could not be read: they are asked for later, with the new one.
 */
export type Refreshed =
  | { readonly outcome: 'done'; readonly groups: readonly string[]; readonly refreshToken: string }
  | { readonly outcome: 'renewed'; readonly refreshToken: string }
  | { readonly outcome: 'refused' | 'unknown' };

/** `step` is a constant word for the log. */
export class SigninRefused extends Error {
  readonly step: string;

  constructor(step: string) {
    super(`sign-in refused: ${step}`);
    this.name = 'SigninRefused';
    this.step = step;
  }
}

/** Names of groups as a provider lists them; anything else in their place, and what no row can hold, gives none. */
export function groupNames(value: unknown): string[] {
  const list = typeof value === 'string' ? [value] : Array.isArray(value) ? value : [];
  return list.filter((one): one is string => isName(one) && one !== '').slice(0, 1_000);
}

/** A text that a row can hold as it is. */
export const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.isWellFormed() && !value.includes('\0');

export const nameOf = (...given: unknown[]): string => {
  const found = given.find((one): one is string => typeof one === 'string' && one.trim() !== '' && one.isWellFormed());
  return (found ?? 'somebody').replaceAll('\0', '').slice(0, 200).toWellFormed();
};
