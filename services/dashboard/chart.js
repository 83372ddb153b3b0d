// A chart whose library is no part of the page's own scripts, because it is as large as everything else together.
export default {
  template: "<div></div>",
  props: { options: Object },
  async mounted() {
    const { echarts } = await import("nicegui-echart");
    if (this.gone) return;
    this.library = echarts;
    this.update_chart();
  },
  beforeUnmount() {
    this.gone = true;
    this.observer?.disconnect();
    this.chart?.dispose();
  },
  methods: {
    // Called by each update of the element, which may come before there is anything to draw.
    update_chart() {
      if (!this.library || this.gone || !this.options) return;
      if (!this.chart) {
        this.chart = this.library.init(this.$el);
        this.observer = new ResizeObserver(() => this.chart.resize());
        this.observer.observe(this.$el);
      }
      const options = Vue.toRaw(this.options);
      const before = this.chart.getOption()?.series?.length;
      this.chart.setOption(options, { notMerge: before !== options.series?.length });
    },
  },
};
