// The door of intake: what arrives from outside becomes one recorded event, whatever is sent again
// (docs/reference/webhook-endpoints.md#requests; docs/reference/webhook-endpoints.md#answers,
// docs/reference/connections.md#intakes). It proves the sender over the raw bytes before anything is parsed, and answers only
// after the commit. A push asks for the syncs of the repositories that follow its branch in the transaction that records it.
// It routes nothing, and believes nothing a push says about commits: the server is asked.

export { deliveryBytesMax, reserveBodyBytes } from './body-bytes.ts';
export { forgetOldFacts } from './forget.ts';
export { attributed, largePayload, replayEvent, routedPayload, shownPayload, shownPieces } from './recorded.ts';
export { type IntakeProvider, takeChat, takeCodehost, takeTracker } from './intake.ts';
export { takeErrtrack } from './errtrack.ts';
export { nameDelivery } from './named.ts';
export { logTurnedAway } from './turned-away.ts';
export { startIngest } from './ports.ts';
export { takeWebhook } from './webhook.ts';
