// The menu "Save view": pictures of the screen as SVG and PNG, the whole screen as one HTML file, and its link.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { inBoth } from "../preferences";
import en from "../strings/en/save";
import ko from "../strings/ko/save";
import { listDrawings, type Drawing } from "./drawings";
import { download } from "./files";
import { snapshot, type View } from "./snapshot";
import "./save.css";

const words = inBoth(en, ko);
const drawings = signal<readonly Drawing[] | null>(null); // null while the menu is closed
const told = signal("");

interface Props {
  readonly name: string; // of the files: letters, digits, hyphens
  readonly describe: () => Omit<View, "date">;
}

export function SaveMenu({ name, describe }: Props) {
  const box = useRef<HTMLDivElement>(null), w = words.value, open = drawings.value;
  useEffect(() => {
    const away = (event: Event) => { if (event.target instanceof Node && !box.current?.contains(event.target)) drawings.value = null; };
    document.addEventListener("pointerdown", away);
    return () => { document.removeEventListener("pointerdown", away); drawings.value = null; };
  }, [name]);
  const toggle = () => {
    told.value = "";
    drawings.value = open ? null : listDrawings(document.getElementById("main")!);
  };
  const close = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open) return;
    drawings.value = null;
    box.current?.querySelector("button")?.focus();
  };
  const run = (work: () => void | Promise<void>) => () => void Promise.resolve().then(work).catch(() => (told.value = words.value.failed));
  return (
    <div class="save" ref={box} onKeyDown={close} data-unsaved="">
      <button type="button" aria-expanded={open !== null} aria-controls="save-menu" onClick={toggle}>{w.save}</button>
      {open && (
        <div id="save-menu" class="save-menu" role="group" aria-label={w.save}>
          {open.map((one, number) => (
            <div key={number} class="save-row"><span>{one.title}</span>
              <button type="button" aria-label={w.as(one.title, "SVG")} onClick={run(() => saveSvg(fileName(name, one), one, describe()))}>SVG</button>
              <button type="button" aria-label={w.as(one.title, "PNG")} onClick={run(() => savePng(fileName(name, one), one))}>PNG</button>
            </div>
          ))}
          <div class="save-row"><span>{w.whole}</span>
            <button type="button" aria-label={w.as(w.whole, "HTML")} onClick={run(() => saveHtml(name, describe()))}>HTML</button>
          </div>
          {describe().address && <div class="save-row"><span>{w.linkTo}</span>
            <button type="button" aria-label={w.copyLink} onClick={run(() => navigator.clipboard.writeText(describe().address).then(() => void (told.value = w.copied)))}>{w.copy}</button>
          </div>}
          <p class="small quiet" role="status">{told.value}</p>
        </div>
      )}
    </div>
  );
}

function fileName(name: string, drawing: Drawing): string {
  const slug = drawing.title.normalize("NFC").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return `${name}-${slug.slice(0, 60)}`;
}

function saveSvg(name: string, drawing: Drawing, view: Omit<View, "date">): void {
  const about = [...view.facts.map((pair) => pair.join(": ")), new Date().toISOString(), view.address].filter(Boolean).join(" · ");
  const made = new DOMParser().parseFromString(drawing.svg(), "image/svg+xml"), desc = made.createElementNS("http://www.w3.org/2000/svg", "desc");
  desc.textContent = about;
  made.documentElement.firstElementChild!.after(desc);
  download(`${name}.svg`, `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(made)}\n`, "image/svg+xml");
}

const SCALE = 2; // pixels of the picture for one of the drawing

async function savePng(name: string, drawing: Drawing): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing.svg())}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth * SCALE, image.naturalHeight * SCALE];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  const made = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!made) throw new Error("PNG");
  download(`${name}.png`, made);
}

function saveHtml(name: string, view: Omit<View, "date">): void {
  download(`${name}.html`, snapshot(document.getElementById("main")!, { ...view, date: new Date() }, words.value), "text/html");
}
