// A wait with an end.

/** True when `work` has not settled within the time; a rejection counts as settled and stays its owner's. */
export async function expires(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), limitMs);
  });
  const settled = work.then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}
