import type en from "../en/attention";

const ko: typeof en = {
  language: "언어",
  dark: "어둡게",
  light: "밝게",
  sentence: "문장",
  previous: "이전 문장",
  next: "다음 문장",
  kinds: { encoder: "인코더 셀프 어텐션", decoder: "마스크드 셀프 어텐션", cross: "크로스 어텐션" },
  about: {
    encoder: "원문의 토큰마다 원문 전체를 살펴봅니다.",
    decoder: "단계마다 지금까지 쓴 토큰을 되돌아봅니다.",
    cross: "번역의 단계마다 원문을 살펴봅니다.",
  },
  above: { encoder: "원문 · 주목받는 토큰", decoder: "지금까지 쓴 글 · 주목받는 토큰", cross: "원문 · 주목받는 토큰" },
  below: { encoder: "원문 · 주목하는 토큰", decoder: "번역문 · 지금 쓰는 토큰", cross: "번역문 · 지금 쓰는 토큰" },
  grid: "층 × 헤드",
  lines: "연결선",
  layer: (number) => `${number}층`,
  head: (number) => `헤드 ${number}`,
  meanLayers: "층 평균",
  meanHeads: "헤드 평균",
  all: "모든 층과 헤드의 평균",
  row: (token) => `‘${token}’ 토큰이 주목하는 토큰`,
  cell: {
    encoder: (from, to, weight) => `‘${from}’ 토큰을 읽을 때 ‘${to}’ 토큰에 두는 가중치는 ${weight}입니다.`,
    decoder: (from, to, weight) => `‘${from}’ 토큰을 쓸 때 ‘${to}’ 토큰에 두는 가중치는 ${weight}입니다.`,
    cross: (from, to, weight) => `‘${from}’ 토큰을 쓸 때 ‘${to}’ 토큰에 두는 가중치는 ${weight}입니다.`,
  },
};
export default ko;
