import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import * as chat from '../../adapters/providers/chat/chat.ts';
import * as tracker from '../../adapters/providers/tracker/tracker.ts';
import type { Delivery, Fact, NamedEvent } from '../../domain/delivery.ts';
import type { JsonObject } from '../../domain/json.ts';
import { unlistedPaths } from '../../domain/payloads-testkit.ts';
import { targetTold } from '../../domain/payload-target.ts';

interface Case {
  readonly self: tracker.Self & chat.Self;
  /** What earlier deliveries said. */
  readonly known: readonly Fact[];
  readonly body: JsonObject;
  /** Without the provider's body. */
  readonly event: NamedEvent;
}
const normalizers: { readonly [provider: string]: (one: Case) => Delivery } = {
  tracker: ({ body, self }) => tracker.normalize(body, self),
  chat: ({ body, self }) => chat.normalize(body, self),
};
const folder = new URL('../../../testdata/events/', import.meta.url);

for (const [provider, normalize] of Object.entries(normalizers)) {
  describe(`what the ${provider} says, in the neutral words`, () => {
    for (const file of readdirSync(new URL(`${provider}/`, folder))) {
      it(file.replace('.json', '').replaceAll('-', ' '), () => {
        const one = JSON.parse(readFileSync(new URL(`${provider}/${file}`, folder), 'utf8')) as Case;
        const delivery = normalize(one);
        assert.equal(delivery.kind, 'event');
        if (delivery.kind !== 'event') return;
        const finished = delivery.finish?.(
          (fact) => one.known.find((known) => known.kind === fact.kind && known.key === fact.key)?.value,
        );
        const { payload, ...named } = finished?.event ?? delivery.event;
        const { raw, ...told } = payload;
        assert.deepEqual({ ...named, payload: told }, one.event);
        assert.deepEqual(unlistedPaths(named.key, told), []);
        assert.deepEqual(targetTold(named.key, told), named.target ?? null);
        assert.deepEqual(raw, one.body);
      });
    }
  });
}
