// Search runs in a worker, which browsers refuse to pages opened from disk. There it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise(resolve => {
        const script = frame.contentDocument.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = resolve
        frame.contentDocument.body.appendChild(script)
      })
      this.postMessage = data =>
        this.loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
      this.terminate = () => frame.remove()
    }
  }
}
