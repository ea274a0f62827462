// What a provider's delivery says, once its sender is proven: read from its body, here or in a thread (large.ts), always by
// the same functions. What it is recorded as comes with it, ready to be written.

import * as chat from '../../adapters/providers/chat/chat.ts';
import * as codehost from '../../adapters/providers/codehost/codehost.ts';
import * as tracker from '../../adapters/providers/tracker/tracker.ts';
import { factId } from '../../adapters/store/connections/provider-facts.ts';
import type { InstallationChange } from '../../domain/connection.ts';
import type { Delivery, Fact, FactKey, NamedEvent } from '../../domain/delivery.ts';
import type { JsonObject } from '../../domain/json.ts';
import { type QuestionAnswer, answerIn } from './answer-words.ts';

/** Which provider's words they are, and who the service is there. Plain data: it may go to a thread. */
export type DeliverySource =
  | {
      readonly provider: 'codehost';
      readonly event: string;
      readonly deliveryId: string;
      readonly self: Parameters<typeof codehost.normalize>[3];
    }
  | { readonly provider: 'tracker'; readonly nowMs: number; readonly self: Parameters<typeof tracker.normalize>[1] }
  | { readonly provider: 'chat'; readonly self: Parameters<typeof chat.normalize>[1] };

interface Hints {
  readonly push?: codehost.PushHint;
  readonly pull?: codehost.PullHint;
}

/** What stands in a delivery beside its event. Plain data. */
export interface Envelope {
  /** Of a code host. */
  readonly installationId?: string | undefined;
  readonly change?: InstallationChange | undefined;
  /** Whether the body's own time is within the provider's window. */
  readonly isTimely: boolean;
  /** Of chat. */
  readonly challenge?: string | undefined;
  readonly eventId?: string | undefined;
}

/** An event as it is written. */
export interface ReadEvent {
  readonly key: string;
  readonly target?: NamedEvent['target'];
  readonly answer?: QuestionAnswer | undefined;
  /** The normalized payload without its `raw`, as JSON: a text, or UTF-8 in pieces. */
  readonly payload: string | readonly Uint8Array[];
}

/** What a delivery came to once it was known what earlier ones had said. */
export interface Finished {
  readonly event: ReadEvent;
  readonly derived: readonly ReadEvent[];
  readonly raw: Buffer;
}

export interface EventDelivery extends Hints {
  readonly kind: 'event';
  readonly key: string;
  readonly needs: readonly FactKey[];
  readonly learns: readonly Fact[];
}

export type ReadDelivery = Envelope & {
  readonly delivery:
    | { readonly kind: 'ignored' | 'malformed'; readonly reason: string }
    | (EventDelivery & {
        /** Whether it was read in a thread, and is written in pieces. */
        readonly isLarge: boolean;
        /** `known`: by `factId`. Once more with the same, the same again. */
        finish(known: ReadonlyMap<string, string>): Promise<Finished> | Finished;
      });
};

export interface Reading {
  readonly envelope: Envelope;
  readonly delivery: Delivery<Hints>;
  /** The names by which the service is mentioned there, in lower case; undefined where nobody knows them. */
  readonly bot: readonly string[] | undefined;
}

/** The envelope, the delivery as its provider's room gives it, and who the service is to those who write there. */
export function readingOf(asked: DeliverySource, body: JsonObject): Reading {
  if (asked.provider === 'codehost') {
    const { event, deliveryId, self } = asked;
    const [installationId, change] = [codehost.installationOf(body), codehost.installationChangeOf(event, body)];
    const delivery = codehost.normalize(event, deliveryId, body, self);
    return { envelope: { isTimely: true, installationId, change }, delivery, bot: codehost.mentionedAs(self) };
  }
  if (asked.provider === 'tracker') {
    const isTimely = tracker.isTimely(body, asked.nowMs);
    // A comment names people as they are shown, and the bot is known by its id.
    return { envelope: { isTimely }, delivery: tracker.normalize(body, asked.self), bot: undefined };
  }
  const [challenge, eventId] = [chat.challengeOf(body), chat.eventIdOf(body)];
  const bot = chat.mentionedAs(body, asked.self);
  return { envelope: { isTimely: true, challenge, eventId }, delivery: chat.normalize(body, asked.self), bot };
}

/** What is told of an event before it is finished. */
export const outlineOf = (delivery: Extract<Delivery<Hints>, { kind: 'event' }>): EventDelivery => ({
  kind: 'event',
  key: delivery.event.key,
  needs: delivery.needs ?? [],
  learns: delivery.learns ?? [],
  ...(delivery.push !== undefined && { push: delivery.push }),
  ...(delivery.pull !== undefined && { pull: delivery.pull }),
});

/** The event and those that follow from it. */
export function finishedOf(
  delivery: Extract<Delivery<Hints>, { kind: 'event' }>,
  known: ReadonlyMap<string, string>,
): readonly NamedEvent[] {
  const { event, derived = [] } = delivery.finish?.((fact) => known.get(factId(fact))) ?? { event: delivery.event };
  return [event, ...derived];
}

const written = (event: NamedEvent, bot: Reading['bot']): ReadEvent => ({
  key: event.key,
  ...(event.target !== undefined && { target: event.target }),
  answer: answerIn(event, bot),
  payload: JSON.stringify({ ...event.payload, raw: undefined }),
});

/** A delivery read here. */
export function readHere(asked: DeliverySource, raw: Buffer, body: JsonObject): ReadDelivery {
  const { envelope, delivery, bot } = readingOf(asked, body);
  if (delivery.kind !== 'event') return { ...envelope, delivery };
  return {
    ...envelope,
    delivery: {
      ...outlineOf(delivery),
      isLarge: false,
      finish(known) {
        const events = finishedOf(delivery, known).map((one) => written(one, bot));
        const [event, ...derived] = events as [ReadEvent, ...ReadEvent[]];
        return { event, derived, raw };
      },
    },
  };
}
