// Files that the reader keeps.

export function download(name: string, content: string | Blob, kind = ""): void {
  const address = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type: `${kind};charset=utf-8` }) : content);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
