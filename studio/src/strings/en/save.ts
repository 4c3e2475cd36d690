export default {
  save: "Save view",
  whole: "The whole view, with its numbers",
  as: (title: string, form: string) => `${title} as ${form}`,
  linkTo: "Link to this view",
  copyLink: "Copy the link to this view",
  copy: "Copy",
  copied: "Copied.",
  failed: "That could not be saved.",
  numbers: "Numbers",
  saved: "Saved",
  link: "Link",
};
