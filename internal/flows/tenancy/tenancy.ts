// Organizations, projects, their members, service accounts and API tokens: who there is and what each may do
// (docs/reference/http-api.md#roles). Decides visibility and permissions from memberships and the roles table, deny by default.
// Every change writes its audit row in the same transaction. Never shows or stores a token twice: it is made here,
// answered once, and kept as a hash.

export {
  type Access,
  hashToken,
  notVisible,
  resolveAccess,
  resolveSession,
  sessionAccess,
  sessionSees,
  TokenFault,
} from './access.ts';
export { exportAudit, keepRetention } from './audit.ts';
export { bootstrap, type Client, newToken, recoverClient } from './bootstrap.ts';
export { listGrants } from './me.ts';
export {
  changeRole,
  checkMemberRemoval,
  createServiceAccount,
  readServiceAccount,
  removeMember,
  removeServiceAccount,
  setDisabled,
  setOrgMember,
  setProjectMember,
} from './members.ts';
export {
  changeOrg,
  changeProject,
  checkOrgRemoval,
  createOrg,
  createProject,
  readOrg,
  readProject,
  removeOrg,
  finishDeletions,
  removeProject,
} from './orgs.ts';
export { makeRoom, prune } from './retention.ts';
export { createOrgToken, createOwnToken, dropToken, type MadeToken, revocableToken } from './tokens.ts';
