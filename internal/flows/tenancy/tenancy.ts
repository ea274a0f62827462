// Organizations, projects, their members, service accounts and API tokens: who there is and what each may do
// (contract, section 3). Decides visibility and permissions from memberships and the roles table, deny by default.
// Every change writes its audit row in the same transaction. Never shows or stores a token twice: it is made here,
// answered once, and kept as a hash.

export { type Access, hashToken, notVisible, resolveAccess } from './access.ts';
export { bootstrap, type Client, recoverClient } from './bootstrap.ts';
export { listGrants } from './me.ts';
export {
  createServiceAccount,
  removeMember,
  removeServiceAccount,
  setOrgMember,
  setProjectMember,
} from './members.ts';
export {
  changeOrg,
  changeProject,
  createOrg,
  createProject,
  readOrg,
  readProject,
  removeOrg,
  removeProject,
} from './orgs.ts';
export { createOrgToken, createOwnToken, dropToken, type MadeToken } from './tokens.ts';
