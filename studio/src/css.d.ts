declare module "*.css";
declare module "terms" {
  const terms: Readonly<Record<string, readonly [ko: string, en: string, section: string, saysKo: string, saysEn: string]>>;
  export default terms;
}
