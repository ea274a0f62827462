// The fragments that ship are held to what an author's own are: together they make agents without a remark.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha256 } from '../../../base/hash.ts';
import { defaultCatalog } from '../../../base/config/default-catalog.ts';
import { compile } from '../../../core/compile/compile.ts';
import type { BundleEntry } from '../../../domain/bundle.ts';
import { resolveTemplates } from './templates.ts';

const specifier = '@svc/templates@latest';

async function compileWith(document: string, context: { [name: string]: string } = {}) {
  const path = '.svc/agents/a.yaml';
  const entry: BundleEntry = { path, kind: 'file', oid: 'a'.repeat(40), bytes: Buffer.from(document) };
  return compile({
    bundle: { entries: new Map([[path, entry]]), absent: new Set(), hasSvc: true },
    context,
    catalog: defaultCatalog,
    templates: await resolveTemplates([specifier], { sources: [] }),
    sha256,
  });
}

test('the shipped environments stand alone', async () => {
  for (const name of ['node24', 'repository']) {
    const output = await compileWith(
      `imports: '${specifier}/environments/${name}.yaml'\nname: a\nharness: harness-a\n`,
    );
    assert.deepEqual(output.diagnostics, []);
    assert.deepEqual(
      output.resources.filter((resource) => resource.kind === 'Environment').map((resource) => resource.name),
      [name],
    );
  }
});

test('the shipped reviewer with its triggers compiles under the variables that a sync supplies', async () => {
  const imports = [
    'environments/repository',
    'agents/reviewer',
    'triggers/review-pull-requests',
    'triggers/follow-pull-request',
  ];
  const document = `imports:\n${imports.map((path) => `  - '${specifier}/${path}.yaml'\n`).join('')}name: reviewer\n`;
  const output = await compileWith(document, { repositoryFullName: 'acme/shop', codehostConnection: 'hub' });
  assert.deepEqual(output.diagnostics, []);
  const agent = output.resources.find((resource) => resource.kind === 'Agent');
  assert.ok(agent?.kind === 'Agent');
  assert.equal(agent.spec.triggers.length, 7);
  assert.match(agent.spec.systemPrompt ?? '', /^You review pull requests\./);
  assert.ok(agent.spec.triggers.every((trigger) => trigger.where['$.codehost.repository.fullName'] === 'acme/shop'));
  assert.deepEqual(Object.keys(output.templateLock), [specifier]);
});
