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

/**
 * Installs tahoe's analyzer and optimizer rules in a session and in sessions created from it, for {@code api.session}. It is Java because
 * Spark calls the builders of rules as Scala functions. It calls no Python.
 */
public class Rules {
  private Rules() { }

  /**
   * Installs the rules in the session and, through the extensions, in sessions created from it. A second call changes nothing.
   *
   * @return the fields of the session's analyzer to which no rules can be added, with NUL between them
   */
  public static String install(SparkSession session) {
    if (!has(session.experimental().extraOptimizations(), Rewrite.class)) inject(session.extensions());
    optimise(session);
    return String.join("\0", analyse(session));
  }

  /** Adds the analyzer rules that the session lacks: some Spark versions leave out some of the rules that extensions inject. */
  static synchronized ArrayList analyse(SparkSession session) {
    Object analyzer = session.sessionState().analyzer();
    ArrayList closed = new ArrayList();
    add(analyzer, "hintResolutionRules", new Rule[] {new Definitions.Early(session)}, closed);
    add(analyzer, "extendedResolutionRules", new Rule[] {new Merges(session), new Inserts(), new Variables(session), new StreamMetadata(session)}, closed);
    add(analyzer, "postHocResolutionRules", new Rule[] {new Statements(session), new Definitions.Late()}, closed);
    return closed;
  }

  private static void inject(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(new Builder());
    extensions.injectHintResolutionRule(new Definitions.EarlyBuilder());
    extensions.injectResolutionRule(new Merges.Builder());
    extensions.injectResolutionRule(new Inserts.Builder());
    extensions.injectResolutionRule(new Variables.Builder());
    extensions.injectResolutionRule(new StreamMetadata.Builder());
    extensions.injectPostHocResolutionRule(new Statements.Builder());
    extensions.injectPostHocResolutionRule(new Definitions.LateBuilder());
  }

  private static boolean has(Seq rules, Class kind) {
    for (Iterator it = rules.iterator(); it.hasNext(); ) {
      if (it.next().getClass() == kind) return true;
    }
    return false;
  }

  /** Makes {@link Rewrite} the last of the session's user-provided optimizer rules, and plans aggregations by {@link PartialAggregates}. */
  private static void optimise(SparkSession session) {
    ArrayList rules = new ArrayList();
    for (Iterator it = session.experimental().extraOptimizations().iterator(); it.hasNext(); ) {
      Object rule = it.next();
      if (!(rule instanceof Rewrite)) rules.add(rule);
    }
    rules.add(new Rewrite(session));
    session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
    Seq strategies = session.experimental().extraStrategies();
    if (!has(strategies, PartialAggregates.class))
      session.experimental().extraStrategies_$eq((Seq) strategies.appended(new PartialAggregates(session)));
  }

  /** Adds rules to a field of the analyzer by reflection: a session creates its analyzer once, and offers no other way. */
  private static void add(Object analyzer, String name, Rule[] rules, ArrayList closed) {
    try {
      Field field = Fields.of(analyzer, name);
      for (int i = 0; i < rules.length; i++) {
        Seq found = (Seq) field.get(analyzer);
        if (!has(found, rules[i].getClass())) field.set(analyzer, found.appended(rules[i]));
      }
    } catch (Exception error) {  // this Spark has no such field, or one of another type
      closed.add(name);
    }
  }

  /** An optimizer rule builder, which Spark calls for each session created from an enabled one. It installs {@link Rewrite} directly. */
  private static class Builder extends AbstractFunction1 {
    public Object apply(Object session) {
      optimise((SparkSession) session);
      return new Nothing();
    }
  }

  /** The empty rule that the builder returns: an injected rule runs before dynamic partition pruning, too early for {@link Rewrite}. */
  public static class Nothing extends Rule {
    public TreeNode apply(TreeNode plan) { return plan; }
  }
}
