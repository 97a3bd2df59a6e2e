package delta;

import java.lang.reflect.Field;
import java.util.ArrayList;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Gives sessions our rules: one to the optimiser, after any of the user's own, and others to the analysis of statements. */
public class Rules {
  private Rules() { }

  /** The session, and through the extensions that they share, each that is made from it. To do it again changes nothing. */
  public static void install(SparkSession session) {
    if (!has(session.experimental().extraOptimizations(), Rewrite.class)) inject(session.extensions());
    optimise(session);
    Object analyzer = session.sessionState().analyzer();
    add(analyzer, "hintResolutionRules", new Definitions.Early(session));
    add(analyzer, "extendedResolutionRules", new Merges(session));
    add(analyzer, "extendedResolutionRules", new Inserts());
    add(analyzer, "extendedResolutionRules", new Variables(session));
    add(analyzer, "postHocResolutionRules", new Statements(session));
    add(analyzer, "postHocResolutionRules", new Definitions.Late());
  }

  private static void inject(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(new Builder());
    extensions.injectHintResolutionRule(new Definitions.EarlyBuilder());
    extensions.injectResolutionRule(new Merges.Builder());
    extensions.injectResolutionRule(new Inserts.Builder());
    extensions.injectResolutionRule(new Variables.Builder());
    extensions.injectPostHocResolutionRule(new Statements.Builder());
    extensions.injectPostHocResolutionRule(new Definitions.LateBuilder());
  }

  private static boolean has(Seq rules, Class kind) {
    for (Iterator it = rules.iterator(); it.hasNext(); ) {
      if (it.next().getClass() == kind) return true;
    }
    return false;
  }

  private static void optimise(SparkSession session) {
    ArrayList rules = new ArrayList();
    for (Iterator it = session.experimental().extraOptimizations().iterator(); it.hasNext(); ) {
      Object rule = it.next();
      if (!(rule instanceof Rewrite)) rules.add(rule);
    }
    rules.add(new Rewrite(session));
    session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
  }

  /** A session makes its analyser when it is first used, and never again; its rules are where only reflection comes. */
  private static void add(Object analyzer, String name, Rule rule) {
    try {
      Field field = analyzer.getClass().getDeclaredField(name);
      field.setAccessible(true);
      Seq rules = (Seq) field.get(analyzer);
      if (!has(rules, rule.getClass())) field.set(analyzer, rules.appended(rule));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("Spark's analyser takes no further rule: " + error, error);
    }
  }

  /** Spark calls it for each session that is made from an enabled one. */
  private static class Builder extends AbstractFunction1 {
    public Object apply(Object session) {
      optimise((SparkSession) session);
      return new Nothing();
    }
  }

  /** A rule that is injected runs before dynamic partition pruning, which is too early for ours. */
  public static class Nothing extends Rule {
    public TreeNode apply(TreeNode plan) { return plan; }
  }
}
