// A page of a finding or of a race in a frame: no script runs in it, and its address is asked for with our key.

import { useEffect, useState } from "preact/hooks";
import { request, root } from "../engine/remote";
import { fail } from "../session";

/** `path` is that of the finding or race; the address that the server gives opens the page for a minute. */
export function Frame({ path, title, language, loading }: { path: string; title: string; language?: string; loading: string }) {
  const [address, show] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    show("");
    request<{ address: string }>(`${path}/address`, language ? { language } : {}, stop.signal).then((lent) => show(root() + lent.address), fail);
    return () => stop.abort();
  }, [path, language]);
  return address ? <iframe title={title} sandbox="" src={address} /> : <p class="quiet" role="status">{loading}</p>;
}
