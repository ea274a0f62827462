// What faults say in words that more than one place needs, or that the reference promises (docs/reference/messages.md): each
// once. `{}` is the one name that a message tells. The words of diagnostics stand in codes.ts.

import { maskCredentials } from './credential.ts';

export const messagesTable = {
  notVisible: 'There is no such resource, or it is not visible to you.',
  noEndpoint: 'There is no such endpoint.',
  noSession: 'There is no such session.',
  noBinding: 'There is no such binding.',
  noEvent: 'There is no event {}.',
  noAgent: 'There is no agent {}.',
  noConnection: 'There is no connection {}.',
  foreignCursor: 'The cursor was not made by this list; start again without one.',
  notJson: 'The body is not valid JSON.',
  notJsonType: 'The body must be application/json.',
  projectArchived: 'The project is archived; bring it back before changing anything in it.',
  overloaded: 'Too much is waiting for the database; try again.',
  secretNotFound: 'Secret not found: {}',
  secretExpired: 'Secret has expired: {}',
} as const;

/** Of what bodies and trees name, where somebody may write a credential in place of its name. */
const references: ReadonlySet<string> = new Set(['noConnection', 'secretNotFound', 'secretExpired']);

/** A message with its name put in. What looks like a credential stands where the name of something belongs, and is none. */
export const messageOf = (key: keyof typeof messagesTable, name: string): string =>
  messagesTable[key].replace('{}', () => (references.has(key) ? maskCredentials(name) : name));
