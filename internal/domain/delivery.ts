// What a provider's delivery is once its own words are gone (docs/reference/connections.md#intakes): the one shape that all of them give.

import type { JsonObject } from './json.ts';
import type { BindingTarget } from './spec.ts';

export interface DeliveryTarget {
  readonly type: BindingTarget;
  readonly key: string;
}

/** Something the provider said once and a later delivery needs; of a `comment`, that the service itself made it. */
export interface FactKey {
  readonly kind: 'mergeable' | 'label' | 'state' | 'user' | 'thread' | 'comment';
  readonly key: string;
}
export interface Fact extends FactKey {
  readonly value: string;
}
/** The last known value of a fact. */
export type KnownFact = (fact: FactKey) => string | undefined;

export interface NamedEvent {
  readonly key: string;
  readonly payload: JsonObject;
  readonly target?: DeliveryTarget;
}

export type Delivery<More = unknown> =
  | { readonly kind: 'ignored'; readonly reason: string }
  | { readonly kind: 'malformed'; readonly reason: string }
  | ({
      readonly kind: 'event';
      readonly event: NamedEvent;
      /** What to look up before `finish`, and what to remember after it. */
      readonly needs?: readonly FactKey[];
      readonly learns?: readonly Fact[];
      /** The event with what only earlier deliveries tell, and the events that follow from the change. */
      finish?(known: KnownFact): { readonly event: NamedEvent; readonly derived?: readonly NamedEvent[] };
    } & More);
