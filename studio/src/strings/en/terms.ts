export default {
  section: (number: string) => `Section ${number} of the paper`,
  symbols: "Symbols of this formula",
};
