// What a commit says of itself, where its objects are not read anew: what an earlier run of the repository has read.

/** So many of the latest runs of a repository are looked through. */
const lookedAt = 50;

/** As SQL, of SQL: from the run that is repeated, else from a late one of the same commit; null where neither has it. */
export const aboutOf = (run: {
  readonly repository: string;
  readonly commit: string;
  readonly request: string;
}): string =>
  `coalesce((select o.about from svc.reconciles o where o.id = (${run.request} ->> 'from')::uuid),
     (select o.about from (select about, commit from svc.reconciles
         where repository_id = ${run.repository} order by seq desc limit ${lookedAt}) o
       where o.commit = ${run.commit} and o.about is not null limit 1))`;

/** The same for a row `r` of svc.reconciles that gets a commit: what it has, else what is known of it. */
export const aboutOfRow = (commit: string): string =>
  `coalesce(r.about, ${aboutOf({ repository: 'r.repository_id', commit, request: 'r.request' })})`;
