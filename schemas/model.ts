// The model object (docs/reference/agent-document.md#model).

import { effortNames, type ModelSpec, providers, type ReasoningEffort } from '../internal/domain/spec.ts';
import { as, choice, flag, group, list, type Same, text, type Value } from './grammar.ts';

const sorts = ['price', 'throughput', 'latency'] as const;

export const provider = choice(
  providers,
  'Model provider. harness-a takes provider-a; harness-b takes provider-b and provider-c.',
  {
    otherwise: 'the harness’s default provider',
  },
);
export const modelId = text(
  'Model id: a curated one of the provider, one that fits its open pattern, or vendor/model for provider-c.',
  {
    trim: true,
    most: 256,
    what: 'a model id',
    example: 'vendor/model',
  },
);
/** `vendor/model`, a `:tag` allowed: what provider-c takes whatever its curated list says. */
export const slug = '[^/\\s]+/[^/\\s]+';
const providerNames = list(
  text('Name of a provider behind the gateway.', { what: 'a provider name' }),
  'Names of providers behind the gateway.',
  {
    least: 1,
    what: 'a list of provider names',
  },
);

export const gatewayProvider = group(
  {
    allowFallbacks: flag('Whether other providers may serve the model.'),
    order: as(providerNames, { description: 'Providers in the order in which they are tried.' }),
    sort: choice(sorts, 'What providers are preferred by.'),
    only: as(providerNames, { description: 'Providers that alone may serve the model.' }),
    ignore: as(providerNames, { description: 'Providers that may not serve the model.' }),
  },
  'Preferences among the providers behind the gateway.',
);

export const gateway = group(
  {
    models: list(
      as(modelId, {
        description: 'A vendor/model slug.',
        pattern: slug,
        form: 'a vendor/model slug',
        code: 'model-gateway',
      }),
      'Fallback slugs; neither the primary id nor one twice.',
      {
        required: true,
        least: 1,
        most: 3,
        what: 'a list of 1 to 3 vendor/model slugs',
        code: 'model-gateway',
        example: ['vendor/other'],
      },
    ),
    provider: gatewayProvider,
  },
  'Routing preferences of the model gateway.',
  { rule: 'Only where the resolved provider is provider-c; excludes fallbacks.' },
);

const fallback = group(
  {
    id: as(modelId, { required: true }),
    provider: as(provider, { description: 'Must equal the primary’s provider.', otherwise: 'the primary’s provider' }),
  },
  'A model that is tried next.',
);

export const fallbacks = list(
  fallback,
  'Models of the same provider that are tried next, with ids that differ from the primary and each other.',
  {
    least: 1,
    most: 2,
    what: 'a list of 1 or 2 fallbacks',
    code: 'model-fallbacks',
    rule: 'Excludes gateway.',
    example: [{ id: 'vendor/other' }],
  },
);

export const model = group(
  { provider, id: as(modelId, { required: true }), gateway, fallbacks },
  'The model that the harness uses.',
  { otherwise: 'the harness’s default model and provider', example: { provider: 'provider-c', id: 'vendor/model' } },
);

export const reasoningEffort = choice(
  effortNames,
  'How much the model thinks: harness-a takes low to max, harness-b minimal to xhigh; some models take fewer.',
  {
    otherwise: 'high for harness-a, medium for harness-b',
  },
);

true satisfies Same<Value<typeof gatewayProvider>, NonNullable<NonNullable<ModelSpec['gateway']>['provider']>>;
true satisfies Same<Value<typeof gateway>, NonNullable<ModelSpec['gateway']>>;
true satisfies Same<Value<typeof reasoningEffort>, ReasoningEffort>;
