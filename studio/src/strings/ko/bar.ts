import type en from "../en/bar";

const ko: typeof en = {
  studio: "스튜디오",
  screens: "화면",
  model: "모델",
  language: "언어",
  dark: "어둡게",
  light: "밝게",
  skip: "본문으로 건너뛰기",
  loading: "모델을 불러오는 중입니다…",
  noModels: "이 서버에는 번역 모델이 없습니다.",
  failed: (reason) => `요청을 처리하지 못했습니다: ${reason}`,
  unreachable: "서버가 응답하지 않습니다. 아직 실행 중인지 확인해 주세요.",
  key: "API 키",
  keyNeeded: "이 서버를 쓰려면 API 키가 필요합니다.",
  bleu: (value) => `BLEU ${value}`,
};
export default ko;
