// Sessions as records (docs/reference/routing.md#bindings, docs/reference/sessions.md#states; docs/reference/sessions.md#slot, Bindings): how one is made, told, replaced and
// ended, and how its bindings move, each with its event. Which session gets an event is decided elsewhere; what runs a
// session is elsewhere too. All of it happens under the project's routing lock, but for money (docs/reference/sessions.md#spending): what model
// calls may cost and have cost.

export { execInput, execInSession } from './exec.ts';
export { modelKey } from './model-key.ts';
export {
  type Authorization,
  type CallIntent,
  type CallOutcome,
  checkMoney,
  type MoneyPorts,
  moneyPorts,
  usageOfMany,
  spendingOf,
  usageSummary,
} from './money.ts';
export { usageSeriesOf } from './usage-series.ts';
export {
  answerPermission,
  archiveSession,
  interruptSession,
  noSession,
  releaseBinding,
  sendMessage,
  startSession,
} from './operate.ts';
export { archiveOrphans } from './orphans.ts';
export {
  bindSession,
  createSessions,
  deliver,
  endSession,
  type NewSession,
  requireLive,
  takeOver,
  unbindSession,
} from './records.ts';
export { renderRefs } from './refs.ts';
export { messageFrom, spawnFromSession } from './spawn.ts';
export { type SessionEvent, watchSession } from './stream.ts';
export { aliasOfSegment, aliasSegment, checksAlias, sessionAliases } from './tool-aliases.ts';
export { recordTransitions, type Transition } from './transitions.ts';
