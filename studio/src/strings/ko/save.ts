import type en from "../en/save";

const ko: typeof en = {
  save: "화면 저장",
  whole: "숫자까지 담은 화면 전체",
  as: (title, form) => `${title}: ${form} 파일로 저장`,
  linkTo: "이 화면의 링크",
  copyLink: "이 화면의 링크 복사",
  copy: "복사",
  copied: "복사했습니다.",
  failed: "저장하지 못했습니다.",
  numbers: "숫자",
  saved: "저장한 때",
  link: "링크",
};
export default ko;
