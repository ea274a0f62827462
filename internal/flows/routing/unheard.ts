// Events of the error tracker that waited while their project gave up what they are of (docs/reference/error-tracking.md#intake):
// a subscription that was removed lets nobody hear of them any more, and neither does another one that was made since.

import { unsubscribedEvents } from '../../adapters/store/connections/errtrack-grants.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { BatchEvent } from './decide.ts';

export const unheardReason = 'the project’s subscription was removed before it was routed';

/** Ids of those that nobody hears of. Asks the database where there is an event of the error tracker with somebody who listens. */
export async function unheardOf(tx: RoutingTx, events: readonly BatchEvent[]): Promise<ReadonlySet<string>> {
  const asked = events.flatMap(({ id, key, payload, receivedMs, connectionId }) => {
    if (connectionId === null || payload === undefined || !key.startsWith('svc.errtrack.')) return [];
    const errtrackProjectId = textAt(objectAt(objectAt(objectAt(payload)['errtrack'])['project'])['id']) ?? '';
    return [{ id, connectionId, errtrackProjectId, at: new Date(receivedMs) }];
  });
  return asked.length === 0 ? none : new Set(await unsubscribedEvents(tx, asked));
}
const none: ReadonlySet<string> = new Set();
