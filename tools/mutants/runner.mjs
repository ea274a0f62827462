// Runs the tests of one room for Stryker inside its own worker process. A process for each mutant and test file would cost
// half a second each; here the modules of the core are loaded anew for every mutant, in the same process, so that nothing a
// mutant left behind (a cache, a table made at load) is seen by the next. It knows of `node:test` what the core's tests use,
// and refuses the rest, so that no test can pass without having run.
// What a mutant costs is kept small: only the file that holds it is loaded with Stryker's switches in it, the others as they
// were written; the tests that cover it run from the quickest on, until one fails; and a loop without end is noticed by counting
// the places that it passes, a hundred times as many as the same test passes in the first run.

import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire, registerHooks, stripTypeScriptTypes } from 'node:module';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PluginKind, commonTokens, declareClassPlugin, tokens } from '@stryker-mutator/api/plugin';
import { DryRunStatus, TestStatus, toMutantRunResult } from '@stryker-mutator/api/test-runner';

const root = process.cwd();
const core = pathToFileURL(join(root, 'internal/core/')).href;
const stand = { test: new URL('./node-test.mjs', import.meta.url).href, assert: new URL('./node-assert.mjs', import.meta.url).href };
const stripped = new Map();
let generation = 0;
/** The file whose mutant is tried; undefined in the first run, in which all are counted. */
let mutated;

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'node:test') return { url: stand.test, shortCircuit: true };
    if (specifier === 'node:assert/strict' && context.parentURL !== stand.assert) return { url: stand.assert, shortCircuit: true };
    const found = next(specifier, context);
    return found.url.startsWith(core) ? { ...found, url: `${found.url.split('?')[0]}?${generation}` } : found;
  },
  load(url, context, next) {
    if (!url.startsWith(core)) return next(url, context);
    const path = fileURLToPath(url);
    const kind = mutated === undefined ? 'counted' : path === mutated ? 'switched' : 'written';
    const key = `${kind} ${path}`;
    if (!stripped.has(key)) stripped.set(key, sourceOf(path, kind));
    return { format: 'module', source: stripped.get(key), shortCircuit: true };
  },
});
// The same draws for every mutant: of two runs over one tree the figures are equal.
createRequire(join(root, 'package.json'))('fast-check').configureGlobal({ endOnFailure: true, seed: 1 });

const { collect } = await import(stand.test);
const space = (globalThis.__stryker__ ??= {});
space.step = () => {
  if (++space.steps > space.stepsMax) throw new Error('too many steps');
};

const coverPlace = /^function stryCov_9fa48\(\) \{[\s\S]*?^\}$/m;
const isActivePlace = /^function stryMutAct_9fa48\(id\) \{[\s\S]*?^\}$/m;
const cover = `function stryCov_9fa48(...ids) {
  const space = globalThis.__stryker__;
  space.step();
  if (space.covered !== undefined) for (const id of ids) space.covered[id] = (space.covered[id] ?? 0) + 1;
}`;
const isActive = `function stryMutAct_9fa48(id) {
  const space = globalThis.__stryker__;
  if (space.activeMutant !== id) return false;
  space.step();
  return true;
}`;

/** What is loaded of a file: as it was written, or with the switches of its mutants, which count the steps of a test. */
function sourceOf(path, kind) {
  const [kept] = globSync(`.stryker/backup-*/${relative(root, path)}`);
  if (kept === undefined || kind === 'written') return stripTypeScriptTypes(readFileSync(kept ?? path, 'utf8'));
  const source = readFileSync(path, 'utf8');
  if (!source.includes('stryCov_9fa48')) return stripTypeScriptTypes(source);
  if (!coverPlace.test(source) || !isActivePlace.test(source)) throw new Error(`${path}: the switches are not those that were looked at`);
  return stripTypeScriptTypes(source.replace(coverPlace, () => cover).replace(isActivePlace, () => isActive));
}

/** Loads test files and answers with their tests, each `{ id, file, run }`. */
async function load(files) {
  const all = [];
  for (const file of files) {
    const tests = await collect(() => import(pathToFileURL(resolve(file)).href));
    all.push(...tests.map(({ name, run }, index) => ({ id: `${file}#${index} ${name}`, file, run })));
  }
  return all;
}

/** Of each test what it took in the first run, in milliseconds of the processor, and its steps: for all runners that come after. */
const spentFile = join(root, '.mutants-spent.json');
/** How many times the steps of the first run a test may go, and how many any may. */
const stepsFactor = 100;
const stepsLeast = 200_000;

class CoreTestRunner {
  static inject = tokens(commonTokens.options);
  #files;
  #slowestMs;
  /** By file, how many of its mutants each test has killed in this process. */
  #kills = new Map();
  #spent;

  constructor(options) {
    this.#files = globSync(options.core.testFiles);
    this.#slowestMs = options.core.slowestMs;
  }

  capabilities() {
    return { reloadEnvironment: true };
  }

  async dryRun() {
    const mutantCoverage = { static: {}, perTest: {} };
    Object.assign(space, { activeMutant: undefined, steps: 0, stepsMax: Infinity, covered: mutantCoverage.static });
    mutated = undefined;
    const tests = [];
    const spent = {};
    generation += 1;
    for (const one of await load(this.#files)) {
      Object.assign(space, { steps: 0, covered: (mutantCoverage.perTest[one.id] = {}) });
      const before = process.cpuUsage();
      tests.push(await this.#run(one));
      const { user, system } = process.cpuUsage(before);
      spent[one.id] = { cpuMs: (user + system) / 1000, steps: space.steps };
    }
    writeFileSync(spentFile, JSON.stringify(spent));
    return { status: DryRunStatus.Complete, tests, mutantCoverage };
  }

  async mutantRun({ activeMutant, testFilter }) {
    mutated = resolve(activeMutant.fileName);
    Object.assign(space, { activeMutant: activeMutant.id, steps: 0, stepsMax: stepsLeast, covered: undefined });
    this.#spent ??= existsSync(spentFile) ? JSON.parse(readFileSync(spentFile, 'utf8')) : {};
    // What has killed mutants of this file goes first, then what is quick; a test file is loaded when it is its turn.
    const kills = this.#kills.get(mutated) ?? new Map();
    this.#kills.set(mutated, kills);
    const cost = (id) => this.#spent[id]?.cpuMs ?? 0;
    // A test left out for being slow kills nothing: the figure is too low by it, never too high.
    const wanted = [...(testFilter ?? Object.keys(this.#spent))].filter((id) => cost(id) <= this.#slowestMs);
    wanted.sort((left, right) => (kills.get(right) ?? 0) - (kills.get(left) ?? 0) || cost(left) - cost(right));
    const loaded = new Map();
    const tests = [];
    generation += 1;
    try {
      for (const id of wanted) {
        const file = id.slice(0, id.indexOf('#'));
        if (!loaded.has(file)) loaded.set(file, new Map((await load([file])).map((one) => [one.id, one])));
        const one = loaded.get(file).get(id);
        if (one === undefined) continue;
        Object.assign(space, { steps: 0, stepsMax: stepsLeast + stepsFactor * (this.#spent[id]?.steps ?? 0) });
        const result = await this.#run(one);
        tests.push(result);
        // A test may catch what ends it; that it went too far stays.
        if (result.status !== TestStatus.Failed && space.steps <= space.stepsMax) continue;
        kills.set(id, (kills.get(id) ?? 0) + 1);
        break;
      }
    } catch (error) {
      tests.push({ id: 'load', name: 'load', timeSpentMs: 0, status: TestStatus.Failed, failureMessage: String(error) });
    }
    const tooFar = space.steps > space.stepsMax;
    const timeout = { status: DryRunStatus.Timeout, reason: `Hit limit reached (${space.stepsMax} steps)` };
    return toMutantRunResult(tooFar ? timeout : { status: DryRunStatus.Complete, tests });
  }

  async #run({ id, file, run }) {
    const start = performance.now();
    const seen = { id, name: id, fileName: file };
    try {
      await run();
      return { ...seen, timeSpentMs: performance.now() - start, status: TestStatus.Success };
    } catch (error) {
      return { ...seen, timeSpentMs: performance.now() - start, status: TestStatus.Failed, failureMessage: String(error).slice(0, 500) };
    }
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'core', CoreTestRunner)];
