// What an id looks like, as PostgreSQL writes it.

/** Source of an expression: an id in lower case. */
export const uuidPattern = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** Matches a whole text that is an id as it is stored, in lower case. */
export const uuid = new RegExp(`^${uuidPattern}$`);
const anyCase = new RegExp(uuid, 'i');

/** Whether a text that somebody typed is an id, in any case. */
export const isUuid = (text: string): boolean => anyCase.test(text);
