export default {
  class: "Class",
  title: "Join the class",
  how: "Students open this address, or point the camera of a telephone at the picture, and enter the code.",
  code: "Code",
  picture: "The address and the code as a QR code",
  present: (count: number) => (count === 1 ? "1 student is here" : `${count} students are here`),
  send: "Send everybody to this view",
  sent: "sent",
  close: "Close",
  join: "Join",
  follow: "Follow the teacher",
};
