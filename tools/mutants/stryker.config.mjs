// Mutants of one room of the core, killed by that room's own tests: `make mutants ROOM=core/match`, one file of it with
// `FILE=match.ts`. The report as JSON is what score.mjs reads.
const room = process.env.ROOM || 'core/match';
const file = process.env.FILE || '**/*.ts';
/** Places such as `internal/core/match/match.ts:10:1-10:80`, where only some mutants are to be looked at. */
const places = process.env.PLACES?.split(' ').filter(Boolean) ?? [];
export default {
  testRunner: 'core',
  core: { testFiles: `internal/${room}/**/*.test.ts`, slowestMs: Number(process.env.SLOWEST_MS || 300) },
  plugins: [new URL('./runner.mjs', import.meta.url).href],
  mutate: places.length > 0 ? places : [`internal/${room}/${file}`, '!**/*.test.ts', '!**/{fixture,testkit}.ts', '!**/*-testkit.ts'],
  reporters: ['json'],
  jsonReporter: { fileName: process.env.REPORT || 'mutants.json' },
  coverageAnalysis: 'perTest',
  concurrency: 1,
  // Modules that were loaded for a mutant stay in memory until the process ends.
  maxTestRunnerReuse: 200,
  // A mutant that is slow on a loaded machine is not killed: endless loops are found by counting, not by the clock.
  timeoutMS: 30_000,
  // Types are stripped, never compiled: there is no configuration to rewrite.
  disableTypeChecks: false,
  tsconfigFile: 'tools/mutants/none.json',
  // `make mutants` stands in a copy already; a second one would have to follow the symbolic links of testdata.
  inPlace: true,
  tempDirName: '.stryker',
  ignorePatterns: ['docs', 'templates', '.github', 'tools'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  warnings: { unknownOptions: false },
};
