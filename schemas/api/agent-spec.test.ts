// The spec in answers is the spec that compile gives: the two types are one, field by field.

import { it } from 'node:test';
import assert from 'node:assert/strict';
import type { AgentSpec } from '../../internal/domain/spec.ts';
import type { agentSpec } from './agent-spec.ts';
import type { Shape } from './operation.ts';

type Answered = Shape<typeof agentSpec>;
const asAnswered = (spec: AgentSpec): Answered => spec;
const asCompiled = (spec: Answered): AgentSpec => spec as Answered & Pick<AgentSpec, JsonFields>;
/** Where free JSON stands, the answer says less of it than the compiler's own type. */
type JsonFields = 'triggers' | 'bindings';

it('has the fields of the compiled spec and no others', () => {
  const spec: AgentSpec = {
    harness: 'harness-a',
    environment: 'e',
    env: {},
    mounts: [],
    tools: {},
    triggers: [],
    session: {},
    bindings: {},
  };
  assert.equal(asCompiled(asAnswered(spec)), spec);
});
