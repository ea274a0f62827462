// The model object as an author may write it (spec, Model).

import * as v from 'valibot';
import { PROVIDERS } from '../internal/domain/spec.ts';
import { choice, described, flag, text } from './common.ts';

const provider = choice(PROVIDERS, 'Model provider; the harness default where absent.');
const id = text(256, 'Model id: a curated one, or vendor/model for provider-c.');
const names = v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1));

export const model = described(
  v.strictObject({
    provider: v.optional(provider),
    id: v.optional(id),
    gateway: v.optional(
      described(
        v.strictObject({
          models: v.optional(described(v.pipe(v.array(id), v.minLength(1), v.maxLength(3)), '1 to 3 fallback slugs.')),
          provider: v.optional(
            v.strictObject({
              allowFallbacks: v.optional(flag('Whether other providers may serve the model.')),
              order: v.optional(names),
              sort: v.optional(v.picklist(['price', 'throughput', 'latency'])),
              only: v.optional(names),
              ignore: v.optional(names),
            }),
          ),
        }),
        'Routing preferences of provider-c; excludes fallbacks.',
      ),
    ),
    fallbacks: v.optional(
      described(
        v.pipe(v.array(v.strictObject({ id, provider: v.optional(provider) })), v.minLength(1), v.maxLength(2)),
        '1 or 2 models of the same provider that are tried next; excludes gateway.',
      ),
    ),
  }),
  'The model that the harness uses.',
);
