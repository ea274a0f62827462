// Sessions as records (contract, sections 5 and 6; spec, Session and slot, Bindings): how one is made, told, replaced and
// ended, and how its bindings move, each with its event. Which session gets an event is decided elsewhere; what runs a
// session is elsewhere too. All of it happens under the project's routing lock, but for money (spec, spendCaps): what model
// calls may cost and have cost.

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
