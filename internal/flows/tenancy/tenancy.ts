// Organizations, projects, their members, service accounts and API tokens: who there is and what each may do
// (contract, section 3). Decides visibility and permissions from memberships and the roles table, deny by default.
// Every change writes its audit row in the same transaction. Never shows or stores a token twice: it is made here,
// answered once, and kept as a hash.

export { type Access, hashToken, notVisible, resolveAccess } from './access.ts';
export { bootstrap, type Client, newToken, recoverClient } from './bootstrap.ts';
