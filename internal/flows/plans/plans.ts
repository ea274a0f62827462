// What the code host is told about repositories that are followed through a connection
// (docs/reference/repositories.md#plans-on-pull-requests): on pull requests what applying them would change, as one comment
// that is edited in place and a check with annotations; on commits what has become of them, as a status. Wishes are rows;
// telling re-reads the world and sends no more than what differs from what was told, each write once, through the outbox.
// Never applies anything, and never delays a sync.

export { codehostChecks } from './session-checks.ts';
export { pollPulls } from './look.ts';
export { publishPlans } from './pulls.ts';
export { forgetToldStatuses, publishStatuses } from './statuses.ts';
