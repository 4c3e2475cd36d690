export default {
  title: "Translate",
  text: "Text to translate",
  translation: "Translation",
  placeholder: "Type a sentence",
};
